//go:build !unix

package client

import (
	"errors"
	"os"
)

// lock fails, because two senders with one folder would use the same numbers.
func lock(*os.File) error {
	return errors.New("this system has no locks of files, so a sender can't have a folder here")
}
