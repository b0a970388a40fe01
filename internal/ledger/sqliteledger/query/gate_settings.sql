-- The doorkeeper's settings.
-- params: none
SELECT settings_version, settings, settings_author, settings_at FROM gate WHERE one = 1
