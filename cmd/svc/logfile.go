package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// logName is the log of all programs, below the data folder. The log before it has the same name
// with .1 added.
const logName = "log/svc.log"

// maxLog is the size at which a new log is begun.
const maxLog = 16 << 20

// A logFile is a log of bounded size.
type logFile struct {
	path string
	file *os.File
	size int64
}

// openLog continues the log of the folder.
func (f *folder) openLog() (*logFile, error) {
	l := &logFile{path: f.file(logName)}
	if err := os.MkdirAll(filepath.Dir(l.path), 0o700); err != nil {
		return nil, err
	}
	return l, l.open()
}

func (l *logFile) open() error {
	file, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		_ = file.Close()
		return err
	}
	l.file, l.size = file, info.Size()
	return nil
}

// Write appends one or more lines.
func (l *logFile) Write(p []byte) (int, error) {
	if l.size > 0 && l.size+int64(len(p)) > maxLog {
		if err := os.Rename(l.path, l.path+".1"); err != nil {
			return 0, fmt.Errorf("begin a new log: %w", err)
		}
		_ = l.file.Close()
		if err := l.open(); err != nil {
			return 0, err
		}
	}
	n, err := l.file.Write(p)
	l.size += int64(n)
	return n, err
}

// Close closes the file.
func (l *logFile) Close() error { return l.file.Close() }
