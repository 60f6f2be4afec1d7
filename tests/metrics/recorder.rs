//! A recorder that keeps the latest values.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use metrics::{
    Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};

/// Values by name and label.
#[derive(Clone, Default)]
pub(crate) struct Numbers(Arc<Mutex<BTreeMap<Series, Arc<AtomicU64>>>>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) label: Option<(String, String)>,
    is_gauge: bool,
}

impl Numbers {
    /// Returns the count of a counter or histogram, or the value of a gauge.
    pub(crate) fn get(&self, name: &str, label: Option<(&str, &str)>) -> u64 {
        let label = label.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let numbers = self.0.lock().unwrap();
        let found = numbers.iter().find(|(at, _)| at.name == name && at.label == label);
        found.map_or(0, |(series, number)| {
            let number = number.load(Ordering::SeqCst);
            // Gauges have small whole values here.
            if series.is_gauge {
                f64::from_bits(number).to_string().parse().expect("a whole number")
            } else {
                number
            }
        })
    }

    /// Returns the value of a gauge, if it was set.
    pub(crate) fn gauge(&self, name: &str, (key, value): (&str, &str)) -> Option<f64> {
        let label = Some((key.to_owned(), value.to_owned()));
        let numbers = self.0.lock().unwrap();
        let found = numbers.iter().find(|(at, _)| at.name == name && at.label == label);
        found.map(|(_, number)| f64::from_bits(number.load(Ordering::SeqCst)))
    }

    pub(crate) fn all(&self) -> Vec<Series> {
        self.0.lock().unwrap().keys().cloned().collect()
    }

    fn number(&self, key: &Key, is_gauge: bool) -> Arc<AtomicU64> {
        // Joins several labels: `job,outcome` is `report,finished`.
        let label = key.labels().map(|l| (l.key().to_owned(), l.value().to_owned()));
        let label = label.reduce(|(key, value), l| (key + "," + &l.0, value + "," + &l.1));
        let series = Series { name: key.name().to_owned(), label, is_gauge };
        Arc::clone(self.0.lock().unwrap().entry(series).or_default())
    }
}

struct Count(Arc<AtomicU64>);

impl HistogramFn for Count {
    fn record(&self, value: f64) {
        assert!(value >= 0.0);
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Recorder for Numbers {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.number(key, false))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.number(key, true))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Arc::new(Count(self.number(key, false))))
    }
}
