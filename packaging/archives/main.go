// Command archives packs the three functions for AWS Lambda, so that they can be deployed without
// Go. `make archives` builds the functions and calls it.
//
//	archives FROM TO [ARCHITECTURE...]
//
// ARCHITECTURE is arm64 or amd64; the default is both. FROM has a folder for each architecture, as
// `make lambdas` fills dist/. TO gets an archive for each function and architecture, such as
// once-ingest-arm64.zip, and their checksums in functions.sha256. The same files and the same
// version of Go make the same archives.
package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/aws/bootstrap"
)

// checksums is the file of checksums, in the format of sha256sum.
const checksums = "functions.sha256"

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: archives FROM TO [ARCHITECTURE...]")
		os.Exit(2)
	}
	if err := pack(os.Args[1], os.Args[2], os.Args[3:]...); err != nil {
		fmt.Fprintln(os.Stderr, "archives:", err)
		os.Exit(1)
	}
}

// pack writes the archives of the given architectures, or of both, and then their checksums.
func pack(from, to string, only ...string) error {
	architectures := []struct{ folder, aws string }{{"arm64", "arm64"}, {"amd64", "x86_64"}}
	for _, name := range only {
		if name != "arm64" && name != "amd64" {
			return fmt.Errorf("architecture %q is neither arm64 nor amd64", name)
		}
	}
	if err := os.MkdirAll(to, 0o750); err != nil { //nolint:gosec // the caller names it
		return fmt.Errorf("make folder: %w", err)
	}
	var sums strings.Builder
	for _, architecture := range architectures {
		if len(only) > 0 && !slices.Contains(only, architecture.folder) {
			continue
		}
		for _, function := range []string{"ingest", "process", "publish"} {
			program, err := read(filepath.Join(from, architecture.folder, function, "bootstrap"), architecture.folder)
			if err != nil {
				return err
			}
			archive, err := archiveOf(program)
			if err != nil {
				return err
			}
			name := "once-" + function + "-" + architecture.aws + ".zip"
			if err := write(filepath.Join(to, name), archive); err != nil {
				return err
			}
			fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(archive), name)
		}
	}
	return write(filepath.Join(to, checksums), []byte(sums.String()))
}

// read returns a program. If it is built for another architecture, read returns an error.
func read(path, architecture string) ([]byte, error) {
	program, err := os.ReadFile(path) //nolint:gosec // the caller names it
	if err != nil {
		return nil, fmt.Errorf("read function: %w", err)
	}
	if err := bootstrap.Check(bytes.NewReader(program), architecture); err != nil {
		return nil, fmt.Errorf("%s %w", path, err)
	}
	return program, nil
}

// archiveOf returns an archive with the program alone. Time and mode in it are fixed, because those
// of the file differ between two builds.
func archiveOf(program []byte) ([]byte, error) {
	header := &zip.FileHeader{Name: "bootstrap", Method: zip.Deflate, Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)}
	header.SetMode(0o755)
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	w, err := z.CreateHeader(header)
	if err == nil {
		_, err = w.Write(program)
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	return out.Bytes(), nil
}

func write(path string, data []byte) error {
	if err := os.WriteFile(path, data, 0o644); err != nil { //nolint:gosec // release artifacts are public
		return fmt.Errorf("write archive: %w", err)
	}
	return nil
}
