// Package plain writes the texts that commands and the console have in common: escaped text,
// arguments of a shell, and sentences about waits and sessions. So a page and its command say the
// same.
package plain
