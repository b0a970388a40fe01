-- Replaces the doorkeeper's settings.
-- params: settings_version, settings, settings_author, settings_at
UPDATE gate SET settings_version = $1, settings = $2, settings_author = $3, settings_at = $4 WHERE one = 1
