-- The doorkeeper's settings.
-- params: none
SELECT g.settings_version, g.settings, g.settings_author, g.settings_at FROM gate g WHERE g.one = 1
