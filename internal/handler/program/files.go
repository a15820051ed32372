package program

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// files are the files of which a program is made, as far as its command names them: each file in
// the command, and those in its folder with the same extension.
type files map[string]version

// A version of a file.
type version struct {
	modified time.Time
	size     int64
}

// filesOf returns the present files of a command.
func filesOf(command string) files {
	out := files{}
	for _, word := range strings.FieldsFunc(command, func(r rune) bool { return strings.ContainsRune(" \t\"'=;|&()<>", r) }) {
		info, err := os.Stat(word)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		out.add(word, info)
		extension := filepath.Ext(word)
		if extension == "" {
			continue
		}
		entries, _ := os.ReadDir(filepath.Dir(word)) // without the folder, the file is enough
		for _, e := range entries {
			if filepath.Ext(e.Name()) != extension {
				continue
			}
			if info, err := e.Info(); err == nil {
				out.add(filepath.Join(filepath.Dir(word), e.Name()), info)
			}
		}
	}
	return out
}

func (f files) add(path string, info fs.FileInfo) {
	f[filepath.Clean(path)] = version{info.ModTime(), info.Size()}
}

// changed reports whether the files of the command differ from f.
func (f files) changed(command string) bool { return !maps.Equal(f, filesOf(command)) }
