// Package files locks files and makes them durable.
package files
