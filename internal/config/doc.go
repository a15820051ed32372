// Package config reads once.yaml: the streams and destinations of a system.
//
// Reading is strict. Every unknown field, wrong value, dangling name and contradiction is a [Problem] with file, line and field path, and [Parse] finds
// all of them in one go, so that one run shows everything there is to mend. Anchors, aliases and tags are not part of the format.
//
// File names, those of destinations and of secrets, are relative to the working directory of the process.
//
// # Errors
//
// What is wrong with a file is an [*InvalidError]; that a file can't be read is the error of the file system.
//
// # Limits
//
// A file may have [MaxSize] bytes. Reading does not look outside the file: secrets are resolved when a destination is opened.
package config
