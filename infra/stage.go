package infra

import (
	"debug/buildinfo"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
)

// stage makes a folder with a bootstrap, which is built for an architecture, and the configuration.
func stage(asset string, props *PipelineProps) (folder string, err error) {
	from := filepath.Join(asset, "bootstrap")
	in, err := os.Open(from) //nolint:gosec // the operator names it
	if err != nil {
		return "", fmt.Errorf("open bootstrap, which `make lambdas` builds: %w", err)
	}
	defer in.Close()
	if err := runsOn(in, props.Architecture); err != nil {
		return "", fmt.Errorf("%s: %w", from, err)
	}
	if collects(props.Environment) && withoutOTLP(in) {
		return "", fmt.Errorf("%s is built with the tag nootlp, and the environment names a collector: build it without that tag", from)
	}
	if folder, err = os.MkdirTemp("", "once-function-"); err != nil {
		return "", fmt.Errorf("stage bootstrap: %w", err)
	}
	out, err := os.OpenFile(filepath.Join(folder, "bootstrap"), os.O_WRONLY|os.O_CREATE, 0o755) //nolint:gosec // Lambda runs it as another user
	if err == nil {
		_, err = io.Copy(out, in)
		err = firstOf(err, out.Close(), os.WriteFile(filepath.Join(folder, configFile), []byte(props.Config), 0o644)) //nolint:gosec // Lambda reads it as another user
	}
	if err != nil {
		_ = os.RemoveAll(folder)
		return "", fmt.Errorf("stage bootstrap: %w", err)
	}
	return folder, nil
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
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
func runsOn(bootstrap io.ReaderAt, built Architecture) error {
	program, err := elf.NewFile(bootstrap)
	if err != nil {
		return nil //nolint:nilerr // no program
	}
	want := elf.EM_AARCH64
	if built == AMD64 {
		want = elf.EM_X86_64
	}
	if program.Machine != want {
		return fmt.Errorf("is built for %s, and the architecture is %s; build it with LAMBDA_ARCH=%s, or change the setting architecture", program.Machine, built, built)
	}
	return nil
}
