-- Replaces the doorkeeper's settings.
-- params: settings_version, settings, settings_author, settings_at
UPDATE gate SET settings_version = ?, settings = ?, settings_author = ?, settings_at = ? WHERE one = 1
