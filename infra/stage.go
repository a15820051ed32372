package infra

import (
	"debug/elf"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// stage makes a folder with a bootstrap, which is built for an architecture, and the configuration.
func stage(asset, config string, built Architecture) (folder string, err error) {
	from := filepath.Join(asset, "bootstrap")
	in, err := os.Open(from) //nolint:gosec // the operator names it
	if err != nil {
		return "", fmt.Errorf("open bootstrap, which `make lambdas` builds: %w", err)
	}
	defer in.Close()
	if err := runsOn(in, built); err != nil {
		return "", fmt.Errorf("%s: %w", from, err)
	}
	if folder, err = os.MkdirTemp("", "once-function-"); err != nil {
		return "", fmt.Errorf("stage bootstrap: %w", err)
	}
	out, err := os.OpenFile(filepath.Join(folder, "bootstrap"), os.O_WRONLY|os.O_CREATE, 0o755) //nolint:gosec // Lambda runs it as another user
	if err == nil {
		_, err = io.Copy(out, in)
		err = firstOf(err, out.Close(), os.WriteFile(filepath.Join(folder, configFile), []byte(config), 0o644)) //nolint:gosec // Lambda reads it as another user
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
