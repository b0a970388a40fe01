package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"syscall"
)

const (
	// maxHeader bounds a header, and trailers.
	maxHeader = 32 << 10
	// mostInterim bounds the answers, such as 103, that only announce another.
	mostInterim = 16
	// maxBody bounds a body.
	maxBody = 1 << 20

	statusOK           = 200
	statusSwitching    = 101
	statusNoContent    = 204
	statusNotModified  = 304
	lowestStatus       = 100
	unknown            = -1
	shortestStatusLine = len("HTTP/1.1 200")
)

// Answer is what a server said. Its slices are valid until the next request on the
// same connection.
type Answer struct {
	Status int
	Body   []byte
	// Of the header, what crowds look at; empty where there is none.
	Location     []byte
	RetryAfter   []byte
	ServerTiming []byte
	Receipt      []byte // Doorbuster-Receipt
	Replayed     bool   // Idempotency-Replayed: true
	Close        bool   // the server hangs up after this answer
}

// framing is what a header tells of how its body ends.
type framing struct {
	length  int64 // unknown: it has none
	chunked bool
	old     bool // HTTP/1.0
	keep    bool // Connection: keep-alive
}

// read reads one answer, after a few interim ones.
func (c *Conn) read(a *Answer) error {
	for range mostInterim {
		end, err := c.header()
		if err != nil {
			return err
		}
		f := framing{length: unknown}
		if err := c.parse(c.buf[c.r:end], a, &f); err != nil {
			return err
		}
		c.r, c.keep = end, end
		if a.Status == statusSwitching {
			return fmt.Errorf("%w: the server switches to another protocol", ErrAnswer)
		}
		if a.Status >= statusOK {
			return c.body(a, &f)
		}
		*a = Answer{}
		c.keep = 0 // an interim answer is of no use
	}
	return fmt.Errorf("%w: the server sends interim answers only", ErrAnswer)
}

// header reads until a header is whole and returns where it ends, behind its empty
// line.
func (c *Conn) header() (end int, err error) {
	seen := 0
	for {
		unparsed := c.w - c.r
		if i := bytes.Index(c.buf[c.r+seen:c.w], []byte("\r\n\r\n")); i >= 0 {
			unparsed = seen + i + len("\r\n\r\n")
			end = c.r + unparsed
		}
		if unparsed <= maxHeader && end > 0 {
			return end, nil
		}
		if unparsed > maxHeader {
			return 0, fmt.Errorf("%w: its header is longer than %d bytes", ErrAnswer, maxHeader)
		}
		seen = max(0, unparsed-len("\r\n\r\n")+1)
		if err := c.fill(); err != nil {
			if unparsed == 0 && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)) {
				return 0, ErrUnanswered
			}
			return 0, cut(err)
		}
	}
}

// parse reads a whole header, its empty line included.
func (c *Conn) parse(header []byte, a *Answer, f *framing) error {
	line, rest, _ := bytes.Cut(header, []byte("\r\n"))
	if err := a.statusLine(line, f); err != nil {
		return err
	}
	for {
		line, rest, _ = bytes.Cut(rest, []byte("\r\n"))
		if len(line) == 0 {
			break
		}
		colon := bytes.IndexByte(line, ':')
		if colon <= 0 || !isToken(line[:colon]) || !isText(line[colon+1:]) {
			return fmt.Errorf("%w: a header line is %.40q", ErrAnswer, line)
		}
		if err := a.field(line[:colon], trim(line[colon+1:]), f); err != nil {
			return err
		}
	}
	if f.old {
		a.Close = a.Close || !f.keep
	}
	if f.chunked && (f.old || f.length != unknown) {
		return fmt.Errorf("%w: it is chunked, and has a length or is of HTTP/1.0", ErrAnswer)
	}
	return nil
}

func (a *Answer) statusLine(line []byte, f *framing) error {
	bad := len(line) < shortestStatusLine || !bytes.HasPrefix(line, []byte("HTTP/1.")) || (line[7] != '1' && line[7] != '0') ||
		line[8] != ' ' || (len(line) > shortestStatusLine && line[12] != ' ')
	if bad || !isText(line) {
		return fmt.Errorf("%w: it begins with %.40q", ErrAnswer, line)
	}
	for _, d := range line[9:12] {
		if d < '0' || d > '9' {
			return fmt.Errorf("%w: its status is %q", ErrAnswer, line[9:12])
		}
		a.Status = 10*a.Status + int(d-'0')
	}
	if a.Status < lowestStatus {
		return fmt.Errorf("%w: its status is %q", ErrAnswer, line[9:12])
	}
	f.old = line[7] == '0'
	return nil
}

// field reads one line of a header. Lengths tell names apart at no cost.
func (a *Answer) field(name, value []byte, f *framing) error {
	switch len(name) {
	case len("Location"):
		take(&a.Location, name, "location", value)
	case len("Connection"):
		if is(name, "connection") {
			a.connection(value, f)
		}
	case len("Retry-After"):
		take(&a.RetryAfter, name, "retry-after", value)
	case len("Server-Timing"):
		take(&a.ServerTiming, name, "server-timing", value)
	case len("Content-Length"):
		if is(name, "content-length") {
			return f.contentLength(value)
		}
	case len("Transfer-Encoding"):
		if is(name, "transfer-encoding") {
			if f.chunked || !is(value, "chunked") {
				return fmt.Errorf("%w: its transfer coding is %.40q", ErrAnswer, value)
			}
			f.chunked = true
		}
	case len("Doorbuster-Receipt"):
		take(&a.Receipt, name, "doorbuster-receipt", value)
	case len("Idempotency-Replayed"):
		if is(name, "idempotency-replayed") {
			a.Replayed = is(value, "true")
		}
	}
	return nil
}

// take keeps a value if its name is the one wanted.
func take(into *[]byte, name []byte, wanted string, value []byte) {
	if is(name, wanted) {
		*into = value
	}
}

// connection reads a list of what holds for this connection.
func (a *Answer) connection(value []byte, f *framing) {
	for more := true; more; {
		var option []byte
		option, value, more = bytes.Cut(value, []byte(","))
		option = trim(option)
		a.Close = a.Close || is(option, "close")
		f.keep = f.keep || is(option, "keep-alive")
	}
}

func (f *framing) contentLength(value []byte) error {
	var n int64
	for _, d := range value {
		if d < '0' || d > '9' {
			n = unknown
			break
		}
		n = min(10*n+int64(d-'0'), maxBody+1)
	}
	switch {
	case n == unknown || len(value) == 0 || (f.length != unknown && f.length != n):
		return fmt.Errorf("%w: its length is %.40q", ErrAnswer, value)
	case n > maxBody:
		return tooLong()
	}
	f.length = n
	return nil
}

func tooLong() error { return fmt.Errorf("%w: its body is longer than %d bytes", ErrAnswer, maxBody) }

// body reads what follows a header.
func (c *Conn) body(a *Answer, f *framing) error {
	start := c.r
	switch {
	case a.Status == statusNoContent || a.Status == statusNotModified:
		return nil
	case f.chunked:
		if err := c.chunks(); err != nil {
			return err
		}
		a.Body = c.buf[start:c.keep]
	case f.length != unknown:
		n := int(f.length)
		if err := c.need(n); err != nil {
			return err
		}
		c.r += n
		a.Body = c.buf[start:c.r]
	default:
		return c.rest(a)
	}
	return nil
}

// rest reads a body that ends with the connection.
func (c *Conn) rest(a *Answer) error {
	a.Close = true
	start := c.r
	for {
		if c.w-start > maxBody {
			return tooLong()
		}
		if err := c.fill(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return cut(err)
		}
	}
	c.r = c.w
	a.Body = c.buf[start:c.w]
	return nil
}

// chunks reads a chunked body and its trailers, and moves the chunks together: in
// the end they are what stands before c.keep.
func (c *Conn) chunks() error {
	start := c.keep
	for {
		line, err := c.line()
		if err != nil {
			return err
		}
		n, err := chunkSize(line)
		if err != nil {
			return err
		}
		if n == 0 {
			return c.trailers()
		}
		if c.keep-start+n > maxBody {
			return tooLong()
		}
		if err := c.need(n + len("\r\n")); err != nil {
			return err
		}
		if c.buf[c.r+n] != '\r' || c.buf[c.r+n+1] != '\n' {
			return fmt.Errorf("%w: a chunk is longer than it says", ErrAnswer)
		}
		c.keep += copy(c.buf[c.keep:], c.buf[c.r:c.r+n])
		c.r += n + len("\r\n")
	}
}

// maxLine bounds the line before a chunk, and a trailer.
const maxLine = 256

// line returns the next line without its end. It is valid until more is read.
func (c *Conn) line() ([]byte, error) {
	for {
		i := bytes.IndexByte(c.buf[c.r:c.w], '\n')
		if i > maxLine || (i < 0 && c.w-c.r > maxLine) {
			return nil, fmt.Errorf("%w: a line between chunks is longer than %d bytes", ErrAnswer, maxLine)
		}
		if i >= 0 {
			line := c.buf[c.r : c.r+i]
			c.r += i + 1
			if i == 0 || line[i-1] != '\r' {
				return nil, fmt.Errorf("%w: a line between chunks is %.40q", ErrAnswer, line)
			}
			return line[:i-1], nil
		}
		if err := c.fill(); err != nil {
			return nil, cut(err)
		}
	}
}

// chunkSize reads the line before a chunk; extensions are skipped.
func chunkSize(line []byte) (int, error) {
	digits, _, _ := bytes.Cut(line, []byte(";"))
	digits = trim(digits)
	n := 0
	for _, d := range digits {
		v := hex(d)
		if v < 0 {
			return 0, fmt.Errorf("%w: the size of a chunk is %.40q", ErrAnswer, line)
		}
		if n = 16*n + v; n > maxBody {
			return 0, tooLong()
		}
	}
	if len(digits) == 0 {
		return 0, fmt.Errorf("%w: the size of a chunk is %.40q", ErrAnswer, line)
	}
	return n, nil
}

func hex(d byte) int {
	switch {
	case d >= '0' && d <= '9':
		return int(d - '0')
	case d >= 'a' && d <= 'f':
		return int(d-'a') + 10
	case d >= 'A' && d <= 'F':
		return int(d-'A') + 10
	}
	return -1
}

// trailers skips the lines after the last chunk.
func (c *Conn) trailers() error {
	for size := 0; size <= maxHeader; {
		line, err := c.line()
		if err != nil {
			return err
		}
		if len(line) == 0 {
			return nil
		}
		if colon := bytes.IndexByte(line, ':'); colon <= 0 || !isToken(line[:colon]) || !isText(line[colon+1:]) {
			return fmt.Errorf("%w: a trailer is %.40q", ErrAnswer, line)
		}
		size += len(line)
	}
	return fmt.Errorf("%w: its trailers are longer than %d bytes", ErrAnswer, maxHeader)
}

// is compares without regard to the case of ASCII letters; lower is lower-case.
func is(text []byte, lower string) bool {
	if len(text) != len(lower) {
		return false
	}
	for i, c := range text {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// trim cuts blanks off both ends.
func trim(text []byte) []byte {
	for len(text) > 0 && (text[0] == ' ' || text[0] == '\t') {
		text = text[1:]
	}
	for len(text) > 0 && (text[len(text)-1] == ' ' || text[len(text)-1] == '\t') {
		text = text[:len(text)-1]
	}
	return text
}

// tokenChars are the characters a name may have, as bits.
const (
	tokenLow  = 0x03ff6cfa00000000 // !#$%&'*+-.0-9
	tokenHigh = 0x57ffffffc7fffffe // A-Z^_`a-z|~
)

func isToken(name []byte) bool {
	for _, c := range name {
		bits := uint64(tokenLow)
		if c >= 64 {
			bits = tokenHigh
		}
		if c >= 128 || bits>>(c&63)&1 == 0 {
			return false
		}
	}
	return len(name) > 0
}

// isText reports whether a value holds no control character but tabs.
func isText(value []byte) bool {
	for _, c := range value {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
