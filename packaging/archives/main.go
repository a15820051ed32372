// Command archives packs the three functions for AWS Lambda, so that they can be deployed without
// Go. `make archives` builds the functions and calls it.
//
//	archives FROM TO
//
// FROM has the folders arm64 and amd64, as `make lambdas` fills dist/. TO gets an archive for each
// function and architecture, such as once-ingest-arm64.zip. The same files and the same version of
// Go make the same archives.
package main

import (
	"archive/zip"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/effectively-once/once/internal/aws/bootstrap"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: archives FROM TO")
		os.Exit(2)
	}
	if err := pack(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "archives:", err)
		os.Exit(1)
	}
}

// pack writes the archives.
func pack(from, to string) error {
	if err := os.MkdirAll(to, 0o750); err != nil { //nolint:gosec // the caller names it
		return fmt.Errorf("make folder: %w", err)
	}
	for _, architecture := range []struct{ folder, aws string }{{"arm64", "arm64"}, {"amd64", "x86_64"}} {
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
			if err := os.WriteFile(filepath.Join(to, name), archive, 0o644); err != nil { //nolint:gosec // everybody may read it
				return fmt.Errorf("write archive: %w", err)
			}
		}
	}
	return nil
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
