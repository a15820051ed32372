//go:build !unix

package files

import (
	"errors"
	"os"
)

// ErrLocked says that another process has locked the file.
var ErrLocked = errors.New("another process has locked the file")

// Lock fails, because this system has no locks that end with their process.
func Lock(*os.File) error {
	return errors.New("this system has no locks of files that end with their process")
}
