package engine

// Stands tells how many sales are being sold.
func (e *Engine) Stands() int {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return len(e.stands)
}
