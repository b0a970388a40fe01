package cli

import (
	"runtime"
	"runtime/debug"
)

// version is set by the linker in release builds.
var version string

// currentVersion returns the version of this binary.
func currentVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

// versionCmd prints the version.
type versionCmd struct{ jsonFlag }

// versionInfo is what a binary tells of itself.
type versionInfo struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Run prints the version.
func (c *versionCmd) Run(s *session) error {
	v := versionInfo{Version: currentVersion(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if c.JSON {
		return writeJSON(s.Out, v)
	}
	return say(s.Out, "doorbuster %s (%s, %s)", v.Version, v.Go, v.Platform)
}
