// Package writer kills the processes that a Writer of package owner/writer runs in, and looks at what is left in the database.
package writer
