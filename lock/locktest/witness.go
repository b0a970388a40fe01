package locktest

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/lock"
)

// Witness watches the holders of one mutex. Every holder enters and leaves; what
// breaks the promise is remembered. It is safe for concurrent use.
type Witness struct {
	mu       sync.Mutex
	inside   lock.Owner
	last     lock.Fence
	entries  int
	overlaps int
	backward int
	order    []lock.Owner
}

// Enter is called by a holder as soon as it holds the lock.
func (w *Witness) Enter(lease *lock.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.inside != "" {
		w.overlaps++
	}
	if lease.Fence() <= w.last {
		w.backward++
	}
	w.inside, w.last = lease.Owner(), lease.Fence()
	w.entries++
	w.order = append(w.order, lease.Owner())
}

// Leave is called by a holder before it unlocks, or when its lease is over.
func (w *Witness) Leave(lease *lock.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.inside == lease.Owner() {
		w.inside = ""
	}
}

// Require asserts that there were n entries, no two at once, and that fences grew.
func (w *Witness) Require(t *testing.T, n int) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Equal(t, n, w.entries)
	require.Zero(t, w.overlaps, "two held it at once")
	require.Zero(t, w.backward, "a fence did not grow")
}

// Register is a resource that a lock guards by its fence: it refuses writes with
// an older fence than it has seen. It is safe for concurrent use.
type Register struct {
	mu    sync.Mutex
	fence lock.Fence
	value string
}

// Write changes the value, unless a later holder has written. It reports whether
// it did.
func (r *Register) Write(fence lock.Fence, value string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if fence < r.fence {
		return false
	}
	r.fence, r.value = fence, value
	return true
}

// Read returns the value and the fence it was written with.
func (r *Register) Read() (string, lock.Fence) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.value, r.fence
}

// pause gives others a chance to be wrong.
func pause() { lasts(100 * time.Microsecond) }
