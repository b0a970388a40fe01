package config

import (
	"slices"
	"strings"
)

// ReservedEnv lists the variables with our prefix that are no keys of the
// configuration: they are read by the command line.
func ReservedEnv() []string {
	return []string{"DOORBUSTER_CONFIG", "DOORBUSTER_URL", "DOORBUSTER_API_KEY"}
}

func readEnviron(environ []string, found *problems) []assignment {
	byName := make(map[string]Field)
	for _, f := range leaves() {
		byName[f.Env()] = f
	}
	names := keys(byName)
	var out []assignment
	for _, entry := range slices.Sorted(slices.Values(environ)) {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, EnvPrefix) || slices.Contains(ReservedEnv(), name) || fromKubernetes(name, value) {
			continue
		}
		f, known := byName[name]
		switch {
		case !known:
			found.add("", name, "no key of the configuration has this variable", didYouMean(name, names))
		case value != "": // set but empty says nothing, as usual in the environment
			out = append(out, assignment{key: f.Key, words: f.split(value), source: name})
		}
	}
	return out
}

// fromKubernetes reports whether a variable is one that Kubernetes sets in every
// pod for a service whose name begins with "doorbuster".
func fromKubernetes(name, value string) bool {
	for _, mark := range []string{"_SERVICE_HOST", "_SERVICE_PORT", "_TCP_ADDR", "_TCP_PORT", "_TCP_PROTO", "_UDP_ADDR", "_UDP_PORT", "_UDP_PROTO"} {
		if strings.Contains(name, mark) {
			return true
		}
	}
	return strings.Contains(name, "_PORT") && (strings.HasPrefix(value, "tcp://") || strings.HasPrefix(value, "udp://"))
}

// didYouMean returns a hint that names the nearest known name, if one is near.
func didYouMean(name string, known []string) string {
	best, least := "", 1+len(name)/3
	for _, k := range known {
		if d := distance(name, k, least); d < least {
			best, least = k, d
		}
	}
	if best == "" {
		return "see `doorbuster config doc` for every key"
	}
	return "did you mean " + best + "?"
}

// distance returns the number of single-character edits between two names, or
// bound if it is not below that.
func distance(a, b string, bound int) int {
	if len(a)-len(b) >= bound || len(b)-len(a) >= bound || len(a) > 256 {
		return bound
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j]+1, row[j+1]+1, diagonal+cost)
		}
	}
	return min(row[len(b)], bound)
}
