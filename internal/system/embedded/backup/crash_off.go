//go:build !crashpoints

package backup

// crash is the end of the process in test builds only, see crash_on.go.
func crash() {}
