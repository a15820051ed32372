// Package bootstrap checks the program of a function before it is deployed.
package bootstrap

import (
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"
)

// Check returns an error if a program is built for another architecture than arm64 or amd64, or if
// it shall report to a collector of OpenTelemetry and can't. It could be deployed, but would fail at
// each start.
func Check(program io.ReaderAt, architecture string, collector bool) error {
	if err := runsOn(program, architecture); err != nil {
		return err
	}
	if collector && withoutOTLP(program) {
		return errors.New("is built with the tag nootlp, and the environment names a collector: build it without that tag")
	}
	return nil
}

// withoutOTLP reports whether a Go program can't report to a collector: it would fail at each
// start.
func withoutOTLP(bootstrap io.ReaderAt) bool {
	info, err := buildinfo.Read(bootstrap)
	if err != nil {
		return false // not a Go program
	}
	return slices.ContainsFunc(info.Settings, func(s debug.BuildSetting) bool {
		return s.Key == "-tags" && slices.Contains(strings.Split(s.Value, ","), "nootlp")
	})
}

// runsOn returns an error if a program is built for another architecture: it could be deployed, but
// would fail at each start. A file that is not a program, such as a script, is accepted.
func runsOn(bootstrap io.ReaderAt, built string) error {
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
