package embedded

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"github.com/effectively-once/once/internal/config"
)

// A certificate is a pair of files. It is read again when one of them has changed. If the new pair
// can't be used, the old one stays, and the log says so.
type certificate struct {
	config config.TLS
	log    *slog.Logger

	mu   sync.Mutex
	pair *tls.Certificate
	seen [2]os.FileInfo // of the files as they were last read
}

func openCertificate(c config.TLS, log *slog.Logger) (*certificate, error) {
	f := &certificate{config: c, log: log}
	if err := f.reload(); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.refresh(false); err != nil {
		f.log.Error("the new TLS certificate can't be used, and the old one stays", "error", err)
	}
	return f.pair, nil
}

// reload reads the pair, even if the files look as before.
func (f *certificate) reload() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.refresh(true)
}

// refresh reads the pair if a file has changed. The caller holds the lock. A pair that can't be
// used is tried once.
func (f *certificate) refresh(always bool) error {
	var now [2]os.FileInfo
	changed := always
	for i, path := range []string{f.config.Cert, f.config.Key} {
		now[i], _ = os.Stat(path) // if it is not there, loading says so
		changed = changed || !sameFile(f.seen[i], now[i])
	}
	if !changed {
		return nil
	}
	f.seen = now
	pair, err := tls.LoadX509KeyPair(f.config.Cert, f.config.Key)
	if err != nil {
		return fmt.Errorf("read server.tls: %w", err)
	}
	if f.pair != nil && !always {
		f.log.Info("the TLS certificate was replaced", "not_after", pair.Leaf.NotAfter)
	}
	f.pair = &pair
	return nil
}

func sameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}
