//go:build !unix

package embedded

// maxFiles returns how many files this process may have open, or 0 if it is not known.
func maxFiles() int { return 0 }
