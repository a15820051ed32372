package embedded

import (
	"context"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/system/embedded/backup"
)

var _ admin.Backuper = (*System)(nil)

// Backup copies the data folder and the files of file destinations into a folder that does not
// exist, also while messages are processed. See [backup.Write].
func (s *System) Backup(ctx context.Context, dir string) (admin.BackupInfo, error) {
	source := backup.Source{DB: s.db, DataDir: s.options.DataDir, Now: s.options.Now}
	for _, f := range s.outputs() {
		source.Files = append(source.Files, f.Path())
	}
	info, err := backup.Write(ctx, source, dir)
	if err != nil {
		return admin.BackupInfo{}, err
	}
	return admin.BackupInfo{Dir: dir, At: info.At, Files: len(info.Files), Objects: info.Objects, Unknown: info.Unknown, Missing: info.Missing}, nil
}
