//! Web pages that show and steer the locks and jobs of tower-redlock, inside the service that uses them.
