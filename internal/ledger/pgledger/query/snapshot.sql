-- Fixes the instant that a snapshot sees, and lets its reader think for longer
-- between two statements than a writer, who holds locks, may.
-- params: idle (a duration)
SELECT set_config('idle_in_transaction_session_timeout', $1, true)
