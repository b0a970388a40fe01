package gate

import "time"

// Keys returns what the keeper signs and verifies with now.
func (k *Keeper) Keys() Keys { return k.known.Load().keys }

// Now returns the keeper's time.
func (k *Keeper) Now() time.Time { return k.o.Now() }
