package infra

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/effectively-once/once/internal/aws/bootstrap"
)

// stage makes a folder with a bootstrap, which is built for an architecture, and the configuration.
func stage(asset string, props *PipelineProps) (folder string, err error) {
	from := filepath.Join(asset, "bootstrap")
	in, err := os.Open(from) //nolint:gosec // the operator names it
	if err != nil {
		return "", fmt.Errorf("open bootstrap, which `make lambdas` builds: %w", err)
	}
	defer in.Close()
	if err := bootstrap.Check(in, string(props.Architecture)); err != nil {
		return "", fmt.Errorf("%s %w", from, err)
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
