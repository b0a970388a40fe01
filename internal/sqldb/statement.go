package sqldb

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// Statement is one SQL statement, kept in a file of its own.
type Statement struct {
	// Name is the file's name without .sql.
	Name string
	// Text is the statement without its header.
	Text string
	// Params names the parameters in the order of their first use.
	Params []string
}

const paramsHeader = "params:"

// Statements reads every .sql file of a folder. Each begins with comment lines;
// one of them is "-- params: a, b, c", or "-- params: none". The text marks
// parameters as its database does: by ?, by ?1, ?2 … where one is used more than
// once, or by $1, $2 ….
func Statements(dir fs.FS) (map[string]Statement, error) {
	files, err := fs.Glob(dir, "*.sql")
	if err != nil {
		return nil, err
	}
	out := make(map[string]Statement, len(files))
	for _, file := range files {
		raw, err := fs.ReadFile(dir, file)
		if err != nil {
			return nil, err
		}
		s, err := parse(strings.TrimSuffix(path.Base(file), ".sql"), string(raw))
		if err != nil {
			return nil, err
		}
		out[s.Name] = s
	}
	return out, nil
}

func parse(name, raw string) (Statement, error) {
	s := Statement{Name: name}
	var text []string
	described, listed := false, false
	for line := range strings.Lines(raw) {
		comment, isComment := strings.CutPrefix(strings.TrimSpace(line), "--")
		comment = strings.TrimSpace(comment)
		switch {
		case !isComment:
			text = append(text, line)
		case len(text) > 0: // a remark inside the text
		case strings.HasPrefix(comment, paramsHeader):
			listed = true
			s.Params = names(strings.TrimPrefix(comment, paramsHeader))
		default:
			described = true
		}
	}
	s.Text = strings.TrimSpace(strings.Join(text, ""))
	switch n := placeholders(s.Text); {
	case !described || !listed:
		return s, fmt.Errorf("statement %s: the header must say what it does and name its parameters", name)
	case n != len(s.Params):
		return s, fmt.Errorf("statement %s: %d parameters in the text, %d in the header", name, n, len(s.Params))
	case strings.Contains(strings.TrimSuffix(s.Text, ";"), ";"):
		return s, fmt.Errorf("statement %s: one file holds one statement", name)
	}
	return s, nil
}

func names(list string) []string {
	list = strings.TrimSpace(list)
	if list == "none" {
		return nil
	}
	out := strings.Split(list, ",")
	for i := range out {
		out[i] = strings.TrimSpace(out[i])
	}
	return out
}

// placeholders counts the parameters of a text: every bare ?, or the highest
// number after a mark.
func placeholders(text string) int {
	bare, highest := 0, 0
	for rest := text; ; {
		at := strings.IndexAny(rest, "?$")
		if at < 0 {
			return max(bare, highest)
		}
		mark := rest[at]
		rest = rest[at+1:]
		n, digits := 0, 0
		for digits < len(rest) && rest[digits] >= '0' && rest[digits] <= '9' {
			n = n*10 + int(rest[digits]-'0')
			digits++
		}
		if digits == 0 && mark == '?' {
			bare++
		}
		highest = max(highest, n)
		rest = rest[digits:]
	}
}
