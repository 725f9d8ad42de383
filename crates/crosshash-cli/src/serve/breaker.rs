//! `Breaker`: whether a store is asked at all. After [`FAILURES`] failures in a row it is open: requests are
//! refused at once, and only the monitor of the store tries, with growing pauses, until it answers.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Failures in a row that open the breaker.
const FAILURES: u32 = 5;
/// The pause of the monitor while the store answers.
const CHECK: Duration = Duration::from_secs(2);
/// Its first pause after a failure, which doubles up to [`LONGEST`].
const FIRST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(5);

/// The state of a store.
pub(crate) struct Breaker {
    state: Mutex<State>,
    /// A check that takes longer is a failure.
    limit: Duration,
}

#[derive(Default)]
struct State {
    /// Failures in a row.
    failures: u32,
    opened: u64,
    since: Option<Instant>,
    pause: Duration,
    /// When the next check begins.
    next: Option<Instant>,
    checking: Option<Instant>,
}

/// Why a request is refused: for how long the store has been away, and when to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Away {
    pub(crate) since: Duration,
    pub(crate) retry: Duration,
}

impl Breaker {
    pub(crate) fn new(limit: Duration) -> Breaker {
        Breaker { state: Mutex::default(), limit }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a request may be sent.
    pub(crate) fn admit(&self, now: Instant) -> Result<(), Away> {
        let state = self.lock();
        if let Some(since) = state.since {
            let retry =
                state.next.map_or(LONGEST, |next| next.saturating_duration_since(now));
            return Err(Away { since: now.saturating_duration_since(since), retry });
        }
        // The store accepts connections, but does not answer.
        match state.checking.map(|begun| now.saturating_duration_since(begun)) {
            Some(since) if since > self.limit => Err(Away { since, retry: LONGEST }),
            _ => Ok(()),
        }
    }

    /// The store has answered.
    pub(crate) fn succeeded(&self) {
        let mut state = self.lock();
        *state =
            State { opened: state.opened, checking: state.checking, ..State::default() };
    }

    /// The store has not answered; returns whether this opened the breaker.
    pub(crate) fn failed(&self, now: Instant) -> bool {
        let mut state = self.lock();
        state.failures = state.failures.saturating_add(1);
        let opens = state.failures >= FAILURES && state.since.is_none();
        if opens {
            state.since = Some(now);
            state.next = Some(now + FIRST);
            state.opened += 1;
        }
        opens
    }

    /// How long the monitor waits before it looks again.
    pub(crate) fn pause(&self, now: Instant) -> Duration {
        let mut state = self.lock();
        if state.failures == 0 {
            return CHECK;
        }
        state.pause = match state.since {
            Some(_) => (state.pause * 2).clamp(FIRST, LONGEST),
            None => FIRST,
        };
        state.next = Some(now + state.pause);
        state.pause
    }

    /// A check begins, or ends.
    pub(crate) fn checks(&self, begun: Option<Instant>) {
        self.lock().checking = begun;
    }

    /// How often it was opened.
    pub(crate) fn opened(&self) -> u64 {
        self.lock().opened
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_in_a_row_open_it_and_a_success_closes_it() {
        let (breaker, now) = (Breaker::new(Duration::from_secs(1)), Instant::now());
        for _ in 0..3 {
            for _ in 1..FAILURES {
                assert!(!breaker.failed(now));
            }
            assert!(breaker.admit(now).is_ok());
            breaker.succeeded(); // the count begins again
        }
        for nth in 1..=FAILURES {
            assert_eq!(breaker.failed(now), nth == FAILURES);
        }
        assert!(!breaker.failed(now), "it is open already");
        let away = breaker.admit(now + Duration::from_millis(100)).unwrap_err();
        assert_eq!(away.since, Duration::from_millis(100));
        assert_eq!(away.retry, Duration::from_millis(150));
        assert_eq!(breaker.opened(), 1);
        breaker.succeeded();
        assert!(breaker.admit(now).is_ok());
        assert_eq!((breaker.opened(), breaker.pause(now)), (1, CHECK));
    }

    #[test]
    fn pauses_grow_to_a_limit() {
        let (breaker, now) = (Breaker::new(Duration::from_secs(1)), Instant::now());
        breaker.failed(now);
        assert_eq!(breaker.pause(now), FIRST);
        assert_eq!(breaker.pause(now), FIRST, "they grow only while it is open");
        for _ in 1..FAILURES {
            breaker.failed(now);
        }
        let pauses: Vec<u64> = (0..6)
            .map(|_| u64::try_from(breaker.pause(now).as_millis()).unwrap())
            .collect();
        assert_eq!(pauses, [500, 1000, 2000, 4000, 5000, 5000]);
        assert_eq!(breaker.admit(now).unwrap_err().retry, LONGEST);
    }

    #[test]
    fn a_check_without_an_end_is_a_failure() {
        let (breaker, now) = (Breaker::new(Duration::from_secs(1)), Instant::now());
        breaker.checks(Some(now));
        assert!(breaker.admit(now + Duration::from_millis(900)).is_ok());
        assert!(breaker.admit(now + Duration::from_millis(1100)).is_err());
        breaker.succeeded();
        breaker.checks(None);
        assert!(breaker.admit(now + Duration::from_secs(9)).is_ok());
    }
}
