package chart

// Ink is the meaning of a curve, a band or a bar, which has one colour everywhere.
type Ink string

// The inks of answers, and those of the parts that are watched.
const (
	Accepted  Ink = "accepted"
	Refused   Ink = "refused"
	Looked    Ink = "looked"
	Settled   Ink = "settled"
	TurnedOff Ink = "turned-off"
	Failed    Ink = "failed"

	Offered Ink = "offered" // what was due
	Sent    Ink = "sent"

	Server   Ink = "server"
	Redis    Ink = "redis"
	Postgres Ink = "postgres"
	Nginx    Ink = "nginx"
	Crowd    Ink = "crowd"
)

// Other returns one of six inks without a meaning of their own, the same for the
// same number.
func Other(i int) Ink {
	others := [...]Ink{"other-1", "other-2", "other-3", "other-4", "other-5", "other-6"}
	return others[uint(i)%uint(len(others))]
}

// Shade is how strong an ink is; several verdicts of one meaning differ by it. Zero
// is full strength, the weakest is 3.
type Shade uint8

const weakest = 3

// class returns the names under which the style sheet knows an ink. One that nobody
// has declared is none: an ink is never a name from elsewhere.
func (i Ink) class(s Shade) string {
	names := [...]string{"", " shade-1", " shade-2", " shade-3"}
	return "ink-" + string(i) + names[min(s, weakest)]
}
