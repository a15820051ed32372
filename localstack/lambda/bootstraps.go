package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The functions, by the names of their folders.
const (
	ingest  = "ingest"
	process = "process"
	publish = "publish"
)

// module identifies the repository, in which the functions can be built from source.
const module = "module github.com/effectively-once/once\n"

// errBootstraps says that there are neither binaries of the functions nor source to build them.
var errBootstraps = errors.New("no bootstrap binaries")

// bootstraps are binaries, by the names of their functions.
type bootstraps map[string]string

// findBootstraps returns the binaries in folder, if it is set. Otherwise it builds them from the
// repository around the current folder, into temporary. Outside a repository it uses those in dist.
// Inside the repository it ignores dist, which may be older than the source, and is usually built
// for another architecture.
func findBootstraps(ctx context.Context, folder, temporary string) (bootstraps, error) {
	if folder != "" {
		return inFolder(folder)
	}
	if root, ok := repository(); ok {
		return build(ctx, root, temporary)
	}
	found, err := inFolder("dist")
	if err != nil {
		return nil, fmt.Errorf("%w; name their folder, or run inside the repository", err)
	}
	return found, nil
}

// inFolder finds FOLDER/NAME/bootstrap.
func inFolder(folder string) (bootstraps, error) {
	found := bootstraps{}
	var errs []error
	for _, name := range []string{ingest, process, publish} {
		path, err := filepath.Abs(filepath.Join(folder, name, "bootstrap"))
		if err == nil {
			_, err = os.Stat(path)
		}
		errs = append(errs, err)
		found[name] = path
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("%w in %s: %w", errBootstraps, folder, err)
	}
	return found, nil
}

// repository finds the folder of the module in or above the current one.
func repository() (root string, ok bool) {
	dir, err := os.Getwd()
	if err != nil {
		return "", false
	}
	for {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod")) //nolint:gosec // the folders above the current one
		if err == nil {
			return dir, strings.HasPrefix(string(text), module)
		}
		if filepath.Dir(dir) == dir {
			return "", false
		}
		dir = filepath.Dir(dir)
	}
}

// build makes the binaries as a deployment does, but for this machine.
func build(ctx context.Context, root, into string) (bootstraps, error) {
	built := bootstraps{}
	for _, name := range []string{ingest, process, publish} {
		built[name] = filepath.Join(into, name, "bootstrap")
		cmd := exec.CommandContext(ctx, "go", "build", "-tags", "lambda.norpc", "-o", built[name], "./functions/"+name) //nolint:gosec // its own source
		cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build function %s: %w\n%s", name, err, bytes.TrimSpace(out))
		}
	}
	return built, nil
}
