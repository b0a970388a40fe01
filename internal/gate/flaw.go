package gate

// Flaw says what is wrong with something that was presented: a pass, a device's
// token, a solved challenge. The zero value is Sound.
type Flaw uint8

// The flaws, in the order in which they are looked for: whatever is not signed by the
// gate is not looked into further.
const (
	Sound       Flaw = iota // nothing is wrong
	Malformed               // it is not what the gate gives out
	UnknownKey              // no key of this number is known here
	RetiredKey              // its key was retired longer ago than anything lives
	Forged                  // the signature is not that of its key
	Unsolved                // challenges only: this is not the number
	ForeignUser             // it was given to somebody else
	ForeignSale             // it was given for another sale
	NotYet                  // it is too early
	Expired                 // it is too late
	Used                    // it has been accepted before
)

// String returns the name of the flaw, as metrics and problems show it.
func (f Flaw) String() string {
	switch f {
	case Sound:
		return "sound"
	case Malformed:
		return "malformed"
	case UnknownKey:
		return "unknown_key"
	case RetiredKey:
		return "retired_key"
	case Forged:
		return "forged"
	case Unsolved:
		return "unsolved"
	case ForeignUser:
		return "foreign_user"
	case ForeignSale:
		return "foreign_sale"
	case NotYet:
		return "not_yet"
	case Expired:
		return "expired"
	case Used:
		return "used"
	default:
		return "unknown"
	}
}
