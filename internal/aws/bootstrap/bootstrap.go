// Package bootstrap checks the program of a function before it is deployed.
package bootstrap

import (
	"debug/elf"
	"fmt"
	"io"
)

// Check returns an error if a program is built for another architecture than arm64 or amd64: it
// could be deployed, but would fail at each start. A file that is not a program, such as a script, is accepted.
func Check(bootstrap io.ReaderAt, built string) error {
	program, err := elf.NewFile(bootstrap)
	if err != nil {
		return nil //nolint:nilerr // no program
	}
	want := elf.EM_AARCH64
	if built == "amd64" {
		want = elf.EM_X86_64
	}
	if program.Machine != want {
		return fmt.Errorf("is built for %s, and the architecture is %s; build it with LAMBDA_ARCH=%s, or change the setting architecture", program.Machine, built, built)
	}
	return nil
}
