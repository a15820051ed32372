//go:build !unix

package file

import "os"

// lock does nothing on systems without advisory locks; the owner file still detects another
// database.
func lock(*os.File) error { return nil }
