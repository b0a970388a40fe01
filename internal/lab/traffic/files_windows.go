package traffic

// openFiles returns how many files a process may have open, at most enough.
func openFiles(enough int) int { return enough }
