//! A recorder that keeps the latest values, and writes them as Prometheus reads them.

use std::{
    collections::BTreeMap,
    fmt::Write,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use metrics::{
    Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};

/// Upper bounds of the buckets of histograms, in seconds.
const BUCKETS: [f64; 12] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 10.0, 60.0];

/// Values by name and label, and the descriptions of the metrics.
#[derive(Clone, Default)]
pub(crate) struct Numbers {
    series: Arc<Mutex<BTreeMap<Series, Arc<Recorded>>>>,
    described: Arc<Mutex<BTreeMap<String, Description>>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Description {
    pub(crate) kind: Kind,
    pub(crate) unit: Option<Unit>,
    pub(crate) text: String,
}

#[derive(Default)]
struct Recorded {
    /// The count of a counter or histogram, or the bits of a gauge.
    number: Arc<AtomicU64>,
    /// The values of a histogram.
    values: Mutex<Vec<f64>>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) label: Option<(String, String)>,
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Numbers {
    /// Returns the count of a counter or histogram, or the value of a gauge.
    pub(crate) fn get(&self, name: &str, label: Option<(&str, &str)>) -> u64 {
        let label = label.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let numbers = self.series.lock().unwrap();
        let found = numbers.iter().find(|(at, _)| at.name == name && at.label == label);
        found.map_or(0, |(series, number)| {
            let number = number.number.load(Ordering::SeqCst);
            // Gauges have small whole values here.
            if series.kind == Kind::Gauge {
                f64::from_bits(number).to_string().parse().expect("a whole number")
            } else {
                number
            }
        })
    }

    /// Returns the value of a gauge, if it was set.
    pub(crate) fn gauge(&self, name: &str, (key, value): (&str, &str)) -> Option<f64> {
        let label = Some((key.to_owned(), value.to_owned()));
        let numbers = self.series.lock().unwrap();
        let found = numbers.iter().find(|(at, _)| at.name == name && at.label == label);
        found.map(|(_, number)| f64::from_bits(number.number.load(Ordering::SeqCst)))
    }

    pub(crate) fn all(&self) -> Vec<Series> {
        self.series.lock().unwrap().keys().cloned().collect()
    }

    /// Returns the descriptions, by the names of the metrics.
    pub(crate) fn described(&self) -> BTreeMap<String, Description> {
        self.described.lock().unwrap().clone()
    }

    fn describe(&self, name: &KeyName, kind: Kind, unit: Option<Unit>, text: &SharedString) {
        let description = Description { kind, unit, text: text.to_string() };
        self.described.lock().unwrap().insert(name.as_str().to_owned(), description);
    }

    /// Returns the text of a scrape.
    pub(crate) fn exposition(&self) -> String {
        let mut text = String::new();
        for (name, Description { text: help, .. }) in self.described() {
            writeln!(text, "# HELP {name} {help}").unwrap();
        }
        for (series, recorded) in &*self.series.lock().unwrap() {
            let Series { name, label, kind } = series;
            let (keys, values) = label.as_ref().map_or(("", ""), |(keys, values)| (keys, values));
            let labels: Vec<_> = (keys.split(',').zip(values.split(',')))
                .filter(|(key, _)| !key.is_empty())
                .map(|(key, value)| format!("{key}={value:?}"))
                .collect();
            let number = recorded.number.load(Ordering::SeqCst);
            let labels = labels.join(",");
            let with = |more: &str| match (labels.as_str(), more) {
                ("", "") => String::new(),
                ("", one) | (one, "") => format!("{{{one}}}"),
                (labels, more) => format!("{{{labels},{more}}}"),
            };
            let own = with("");
            match kind {
                Kind::Counter => writeln!(text, "{name}{own} {number}").unwrap(),
                Kind::Gauge => {
                    writeln!(text, "{name}{own} {}", f64::from_bits(number)).unwrap();
                }
                Kind::Histogram => {
                    let values = recorded.values.lock().unwrap();
                    for bound in BUCKETS {
                        let below = values.iter().filter(|value| **value <= bound).count();
                        let labels = with(&format!("le=\"{bound}\""));
                        writeln!(text, "{name}_bucket{labels} {below}").unwrap();
                    }
                    let (count, sum) = (values.len(), values.iter().sum::<f64>());
                    let all = with("le=\"+Inf\"");
                    writeln!(text, "{name}_bucket{all} {count}").unwrap();
                    writeln!(text, "{name}_sum{own} {sum}\n{name}_count{own} {count}").unwrap();
                }
            }
        }
        text
    }

    fn recorded(&self, key: &Key, kind: Kind) -> Arc<Recorded> {
        // Joins several labels: `job_name,outcome` is `report,finished`.
        let label = key.labels().map(|l| (l.key().to_owned(), l.value().to_owned()));
        let label = label.reduce(|(key, value), l| (key + "," + &l.0, value + "," + &l.1));
        let series = Series { name: key.name().to_owned(), label, kind };
        Arc::clone(self.series.lock().unwrap().entry(series).or_default())
    }
}

impl HistogramFn for Recorded {
    fn record(&self, value: f64) {
        assert!(value >= 0.0);
        self.values.lock().unwrap().push(value);
        self.number.fetch_add(1, Ordering::SeqCst);
    }
}

impl Recorder for Numbers {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, text: SharedString) {
        self.describe(&name, Kind::Counter, unit, &text);
    }

    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, text: SharedString) {
        self.describe(&name, Kind::Gauge, unit, &text);
    }

    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, text: SharedString) {
        self.describe(&name, Kind::Histogram, unit, &text);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(Arc::clone(&self.recorded(key, Kind::Counter).number))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(Arc::clone(&self.recorded(key, Kind::Gauge).number))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.recorded(key, Kind::Histogram))
    }
}
