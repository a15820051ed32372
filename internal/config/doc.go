// Package config reads once.yaml: the streams and destinations of a system.
//
// Parsing is strict. Every unknown field, invalid value, unresolved name and contradiction is a
// [Problem] with file, line and field path. [Parse] finds all of them in one run. Anchors, aliases
// and tags are not part of the format.
//
// File names, those of destinations and of secrets, are relative to the working directory of the
// process.
//
// # Errors
//
// If the content of a file is invalid, the error is an [*InvalidError]; if the file can't be read,
// it is the error of the file system.
//
// # Limits
//
// A file is limited to [MaxSize] bytes. Parsing does not look outside the file: secrets are
// resolved when a destination is opened.
package config
