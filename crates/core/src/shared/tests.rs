//! What is sent to a script, and what comes back.
