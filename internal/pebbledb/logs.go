package pebbledb

import (
	"errors"
	"path/filepath"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// logs is a file system on which an error at the write-ahead log, or in the background, ends the process with a message. Pebble does so for most writes by itself, but panics where it can't end a log or begin
// the next one, on a full disk for example, and with a lock held that nobody can recover from. While the database is being opened, errors are returned.
type logs struct {
	vfs.FS
	logger pebble.Logger
	opened atomic.Bool
}

func (l *logs) isLog(name string) bool { return filepath.Ext(name) == ".log" }

// check reports what can't be gone on from.
func (l *logs) check(doing, name string, err error) {
	if err != nil && l.opened.Load() {
		l.logger.Fatalf("%s the log %s: %v", doing, name, err)
	}
}

// background hears of tables that could not be written. Where the disk refuses, Pebble tries again at once and for ever, and all writers wait without a word.
func (l *logs) background(err error) {
	if _, refused := errors.AsType[syscall.Errno](err); refused && l.opened.Load() {
		l.logger.Fatalf("write tables: %v", err)
	}
}

// Create implements [vfs.FS].
func (l *logs) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := l.FS.Create(name, category)
	return l.guard(name, f, err)
}

// ReuseForWrite implements [vfs.FS].
func (l *logs) ReuseForWrite(old, name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := l.FS.ReuseForWrite(old, name, category)
	return l.guard(name, f, err)
}

func (l *logs) guard(name string, f vfs.File, err error) (vfs.File, error) {
	if !l.isLog(name) {
		return f, err
	}
	if l.check("create", name, err); err != nil {
		return nil, err
	}
	return &logFile{File: f, logs: l, name: name}, nil
}

// Unwrap implements [vfs.FS].
func (l *logs) Unwrap() vfs.FS { return l.FS }

type logFile struct {
	vfs.File
	logs *logs
	name string
}

func (f *logFile) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	f.logs.check("write", f.name, err)
	return n, err
}

func (f *logFile) Sync() error {
	err := f.File.Sync()
	f.logs.check("sync", f.name, err)
	return err
}

func (f *logFile) SyncData() error {
	err := f.File.SyncData()
	f.logs.check("sync", f.name, err)
	return err
}

func (f *logFile) SyncTo(length int64) (bool, error) {
	full, err := f.File.SyncTo(length)
	f.logs.check("sync", f.name, err)
	return full, err
}

func (f *logFile) Close() error {
	err := f.File.Close()
	f.logs.check("close", f.name, err)
	return err
}
