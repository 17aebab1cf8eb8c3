//! What questions make of counters.
