//! Commands on sorted sets, with the options XX, GT and CH of ZADD.

use super::{
    Bytes, Reply, Server,
    server::Call,
    store::{SortedSet, Value},
    strings::{NOT_AN_INTEGER, WRONG_TYPE, integer},
};

const NOT_A_FLOAT: &str = "ERR value is not a valid float";

pub(super) fn run(server: &mut Server, call: &Call, name: &str, args: &[Bytes]) -> Reply {
    match name {
        "zadd" => add(server, call, args),
        "zrem" => {
            let is_named = |member: &Bytes, _| args[2..].contains(member);
            remove(server, call, &args[1], is_named)
        }
        "zremrangebyscore" => {
            let (Some(min), Some(max)) = (bound(&args[2]), bound(&args[3])) else {
                return Reply::error("ERR min or max is not a float");
            };
            remove(server, call, &args[1], |_, score| is_between(score, min, max))
        }
        "zrange" => range(server, call, args),
        _ => match server.store.get(&args[1], call.millis()) {
            None if name == "zcard" => Reply::Int(0),
            None => Reply::Nil,
            Some(Value::Sorted(set)) if name == "zcard" => Reply::count(set.len()),
            Some(Value::Sorted(set)) => set.get(&args[2]).map_or(Reply::Nil, |of| shown(*of)),
            Some(_) => Reply::error(WRONG_TYPE),
        },
    }
}

fn score(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    text.parse().ok().filter(|score: &f64| !score.is_nan())
}

/// Reads a bound of scores, and whether it is left out. An empty text is a zero there.
fn bound(text: &[u8]) -> Option<(f64, bool)> {
    let (text, is_left_out) = match text.strip_prefix(b"(") {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    let bound = if text.is_empty() { 0.0 } else { score(text)? };
    Some((bound, is_left_out))
}

/// Returns whether a score is between two bounds, each with whether it is left out.
fn is_between(score: f64, min: (f64, bool), max: (f64, bool)) -> bool {
    let from = score > min.0 || (score >= min.0 && !min.1);
    let to = score < max.0 || (score <= max.0 && !max.1);
    from && to
}

fn shown(score: f64) -> Reply {
    Reply::text(score.to_string())
}

fn add(server: &mut Server, call: &Call, args: &[Bytes]) -> Reply {
    let (mut only_known, mut only_greater, mut counts_changed) = (false, false, false);
    let mut rest = &args[2..];
    while let Some((option, others)) = rest.split_first() {
        match option.to_ascii_uppercase().as_slice() {
            b"XX" => only_known = true,
            b"GT" => only_greater = true,
            b"CH" => counts_changed = true,
            _ => break,
        }
        rest = others;
    }
    if rest.is_empty() || !rest.len().is_multiple_of(2) {
        return Reply::error("ERR syntax error");
    }
    let pairs = rest.chunks_exact(2);
    let pairs: Option<Vec<_>> = pairs.map(|pair| Some((score(&pair[0])?, &pair[1]))).collect();
    let Some(pairs) = pairs else { return Reply::error(NOT_A_FLOAT) };
    let (key, now) = (&args[1], call.millis());
    if only_known && server.store.get(key, now).is_none() {
        return Reply::Int(0);
    }
    let Some(set) = server.store.sorted_mut(key, now) else { return Reply::error(WRONG_TYPE) };
    let mut counted = 0;
    for (score, member) in pairs {
        let former = set.get(member).copied();
        let is_kept = match former {
            None => only_known,
            Some(former) => !(score > former || (score < former && !only_greater)),
        };
        if !is_kept {
            set.insert(member.clone(), score);
            counted += usize::from(former.is_none() || counts_changed);
        }
    }
    Reply::count(counted)
}

/// Removes members. The key of an empty set is deleted.
fn remove(
    server: &mut Server,
    call: &Call,
    key: &Bytes,
    is_removed: impl Fn(&Bytes, f64) -> bool,
) -> Reply {
    let now = call.millis();
    match server.store.get(key, now) {
        None => return Reply::Int(0),
        Some(Value::Sorted(_)) => {}
        Some(_) => return Reply::error(WRONG_TYPE),
    }
    let Some(set) = server.store.sorted_mut(key, now) else { return Reply::error(WRONG_TYPE) };
    let before = set.len();
    set.retain(|member, score| !is_removed(member, *score));
    let removed = before - set.len();
    if set.is_empty() {
        server.store.delete(key, now);
    }
    Reply::count(removed)
}

/// ZRANGE by positions or scores, with REV, WITHSCORES, and by scores LIMIT.
fn range(server: &Server, call: &Call, args: &[Bytes]) -> Reply {
    let (mut is_reversed, mut has_scores, mut is_by_score, mut limit) = (false, false, false, None);
    let mut options = args[4..].iter();
    while let Some(option) = options.next() {
        match option.to_ascii_uppercase().as_slice() {
            b"REV" => is_reversed = true,
            b"WITHSCORES" => has_scores = true,
            b"BYSCORE" => is_by_score = true,
            b"LIMIT" => {
                let mut number = || options.next().map(|number| integer(number));
                match (number(), number()) {
                    (Some(Some(offset)), Some(Some(count))) => limit = Some((offset, count)),
                    (Some(_), Some(_)) => return Reply::error(NOT_AN_INTEGER),
                    _ => return Reply::error("ERR syntax error"),
                }
            }
            _ => return Reply::error("ERR syntax error"),
        }
    }
    if limit.is_some() && !is_by_score {
        return Reply::error(
            "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
        );
    }
    let by_position = (!is_by_score).then(|| integer(&args[2]).zip(integer(&args[3])));
    let by_score = is_by_score.then(|| bound(&args[2]).zip(bound(&args[3])));
    if by_position == Some(None) {
        return Reply::error(NOT_AN_INTEGER);
    }
    if by_score == Some(None) {
        return Reply::error("ERR min or max is not a float");
    }
    let mut members = match server.store.get(&args[1], call.millis()) {
        None => Vec::new(),
        Some(Value::Sorted(set)) => ordered(set),
        Some(_) => return Reply::error(WRONG_TYPE),
    };
    if is_reversed {
        members.reverse();
    }
    if let Some(Some((first, last))) = by_score {
        let (min, max) = if is_reversed { (last, first) } else { (first, last) };
        members.retain(|(_, score)| is_between(*score, min, max));
        if let Some((offset, count)) = limit {
            // A negative offset leaves out everything, a negative count nothing.
            let offset = usize::try_from(offset).unwrap_or(usize::MAX);
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            members = members.into_iter().skip(offset).take(count).collect();
        }
    }
    let (start, stop) = by_position.flatten().unwrap_or((0, -1));
    let length = i64::try_from(members.len()).unwrap_or(i64::MAX);
    let position = |at: i64| if at < 0 { at.saturating_add(length) } else { at };
    let (start, stop) = (position(start).max(0), position(stop));
    let places = (0_i64..).zip(members).filter(|(at, _)| (start..=stop).contains(at));
    let items = places.flat_map(|(_, (member, score))| {
        let score = has_scores.then(|| shown(score));
        [Some(Reply::text(member)), score].into_iter().flatten()
    });
    Reply::Array(items.collect())
}

/// Returns the members by score, and of one score by their bytes.
fn ordered(set: &SortedSet) -> Vec<(&Bytes, f64)> {
    let mut members: Vec<_> = set.iter().map(|(member, score)| (member, *score)).collect();
    members.sort_by(|one, other| one.1.total_cmp(&other.1).then_with(|| one.0.cmp(other.0)));
    members
}
