package traffic

// OpenFiles returns how many files a process may have open, at most enough.
func OpenFiles(enough int) int { return enough }
