package cas

// Lines is how many lines there are in this process.
func Lines() int {
	lines.Lock()
	defer lines.Unlock()
	return len(lines.m)
}
