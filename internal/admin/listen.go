package admin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
)

// Listen opens the socket of a data folder, for its owner only. It replaces a file that a killed
// server left there, so call it only while the folder is locked. Closing the listener deletes the
// file. Systems limit the path's length, to 107 bytes on Linux.
func Listen(ctx context.Context, dataDir string) (net.Listener, error) {
	path := Socket(dataDir)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("replace admin socket: %w", err)
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("open admin socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("protect admin socket: %w", err), listener.Close())
	}
	return listener, nil
}
