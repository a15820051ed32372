//go:build unix

package embedded

import "syscall"

// maxFiles returns how many files this process may have open, or 0 if it is not known.
func maxFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || uint64(limit.Cur) > 1<<30 { //nolint:unconvert // not everywhere the same type
		return 0
	}
	return int(limit.Cur)
}
