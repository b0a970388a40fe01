package buyers

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/doorbuster/doorbuster/internal/auth"
)

const (
	// MostBuyers bounds a cast.
	MostBuyers = 1_000_000
	// longestToken is that of one line of a file of tokens; servers refuse longer
	// headers anyway.
	longestToken = 8 << 10
)

// Cast is the buyers of a crowd by number, each with the token that proves him. It
// does not change.
type Cast struct {
	users  []string
	tokens []string
}

// Size returns how many buyers there are.
func (c *Cast) Size() int { return len(c.tokens) }

// User returns the id of a buyer, empty if only his issuer knows it.
func (c *Cast) User(buyer int32) string { return c.users[buyer] }

// Token returns the token of a buyer.
func (c *Cast) Token(buyer int32) string { return c.tokens[buyer] }

// Minting says how tokens are made.
type Minting struct {
	Secret           []byte // a development secret; see auth.Mint
	Issuer, Audience string
	Now              time.Time
	Life             time.Duration
}

// Mint returns n buyers whose ids are the prefix and a number.
func Mint(n int, prefix string, m Minting) (*Cast, error) {
	if n < 1 || n > MostBuyers {
		return nil, fmt.Errorf("buyers: a crowd has 1 to %d buyers, not %d", MostBuyers, n)
	}
	c := &Cast{users: make([]string, n), tokens: make([]string, n)}
	for i := range n {
		c.users[i] = fmt.Sprintf("%s-%06d", prefix, i+1)
		token, err := auth.Mint(m.Secret, auth.Claims{
			User: c.users[i], Issuer: m.Issuer, Audience: m.Audience, IssuedAt: m.Now, Expires: m.Now.Add(m.Life),
		})
		if err != nil {
			return nil, err
		}
		c.tokens[i] = token
	}
	return c, nil
}

// ReadCast reads a file of tokens, one a line, of which it takes at most as many as
// asked for; 0 is all, up to MostBuyers. A line is a token, or a user, a tab and his
// token; where it names no user he is read from the token, unproved. Empty lines are
// skipped. The error names the line.
func ReadCast(r io.Reader, most int) (*Cast, error) {
	if most <= 0 || most > MostBuyers {
		most = MostBuyers
	}
	c := &Cast{}
	seen := make(map[string]int)
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 4<<10), longestToken)
	number := 0
	for len(c.tokens) < most && lines.Scan() {
		number++
		line := strings.Trim(lines.Text(), " \r")
		if line == "" {
			continue
		}
		user, token, named := strings.Cut(line, "\t")
		if !named {
			user, token = "", line
		}
		if !visible(token) {
			return nil, fmt.Errorf("line %d: a token is visible ASCII without spaces; a user before it ends with a tab", number)
		}
		if user == "" {
			user = subject(token)
		}
		if first, twice := seen[user]; twice && user != "" {
			return nil, fmt.Errorf("line %d: the user of line %d again; each buyer is a user of his own", number, first)
		}
		seen[user] = number
		c.users, c.tokens = append(c.users, user), append(c.tokens, token)
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fmt.Errorf("line %d: it is longer than %d bytes", number+1, longestToken)
	} else if err != nil {
		return nil, err
	}
	if len(c.tokens) == 0 {
		return nil, errors.New("there is no token in it")
	}
	return c, nil
}

// visible reports whether a text is visible ASCII, as what stands in a header or a
// path must be.
func visible[T string | []byte](text T) bool {
	for i := range len(text) {
		if text[i] < '!' || text[i] > '~' {
			return false
		}
	}
	return len(text) > 0
}

// subject returns the user that a token names, empty if it names none or is no JWT.
func subject(token string) string {
	_, rest, _ := strings.Cut(token, ".")
	middle, _, _ := strings.Cut(rest, ".")
	raw, err := base64.RawURLEncoding.DecodeString(middle)
	if err != nil {
		return ""
	}
	var claims struct {
		Subject string `json:"sub"`
	}
	if json.Unmarshal(raw, &claims) != nil {
		return ""
	}
	return claims.Subject
}
