package e2e

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
)

// The real input: GitHub webhook payloads collected by the octokit community, for github.com and
// for several releases of GitHub Enterprise.
const (
	examplesPackage = "@octokit/webhooks-examples@7.6.1"
	examplesSHA256  = "89e6cb1c6345d32e3dd775617fa54effbdc26c859e514898d7728e95e9738280"
	examplesCount   = 726
)

// deliveries returns every payload of the package as a message: keyed by a delivery id, grouped by
// its repository.
func deliveries(t *testing.T) []sent {
	t.Helper()
	list, err := examples()
	if err != nil {
		t.Fatalf("the real input comes from npm, which must be installed and reach its registry: %v", err)
	}
	return list
}

var examples = sync.OnceValues(func() ([]sent, error) {
	archive, err := fetchExamples()
	if err != nil {
		return nil, err
	}
	list, err := readExamples(archive)
	if err == nil && len(list) != examplesCount {
		err = fmt.Errorf("%s has %d deliveries, not %d", examplesPackage, len(list), examplesCount)
	}
	return list, err
})

func fetchExamples() ([]byte, error) {
	dir, err := os.MkdirTemp("", "once-examples")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "pack", "--silent", "--pack-destination", dir, examplesPackage)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("npm pack %s: %w\n%s", examplesPackage, err, out)
	}
	found, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil || len(found) != 1 {
		return nil, fmt.Errorf("npm pack left %q, %w", found, err)
	}
	archive, err := os.ReadFile(found[0])
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(archive); hex.EncodeToString(sum[:]) != examplesSHA256 {
		return nil, fmt.Errorf("%s is not what it was: its SHA-256 is %x", examplesPackage, sum)
	}
	return archive, nil
}

func readExamples(archive []byte) ([]sent, error) {
	unzipped, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil, err
	}
	var list []sent
	for files := tar.NewReader(unzipped); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		if path.Base(header.Name) != "index.json" {
			continue
		}
		var events []struct {
			Name     string            `json:"name"`
			Examples []json.RawMessage `json:"examples"`
		}
		if err := json.NewDecoder(files).Decode(&events); err != nil {
			return nil, fmt.Errorf("read %s: %w", header.Name, err)
		}
		for _, e := range events {
			for i, payload := range e.Examples {
				m, err := delivery(fmt.Sprintf("%s %s %d", header.Name, e.Name, i), e.Name, payload)
				if err != nil {
					return nil, err
				}
				list = append(list, m)
			}
		}
	}
}

// delivery returns the message of a payload. Its id is derived from its place, so that every run
// sends the same ids.
func delivery(place, event string, payload []byte) (sent, error) {
	var about struct {
		Repository struct {
			FullName string `json:"full_name"`
		} `json:"repository"`
		Organization struct {
			Login string `json:"login"`
		} `json:"organization"`
	}
	if err := json.Unmarshal(payload, &about); err != nil {
		return sent{}, fmt.Errorf("read %s: %w", place, err)
	}
	group := cmp.Or(about.Repository.FullName, about.Organization.Login, "none")
	return sent{
		id: uuid.NewSHA1(uuid.NameSpaceURL, []byte(place)).String(), group: group, contentType: "application/json",
		headers: map[string]string{"X-Github-Event": event}, body: payload,
	}, nil
}
