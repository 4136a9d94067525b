package store

import "svc/events"

// PageBytes limits the stored data of a page: only its last event may exceed the limit. Sizes of
// events differ by a factor of a thousand, so a number of events does not bound the memory of a page.
const PageBytes = 4 << 20

// BytesOfEach returns the share of PageBytes of each log if a page has events of several logs.
func BytesOfEach(logs int) int { return PageBytes / max(logs, 1) }

// PageFull reports whether a log may have events after its part of a page, which has n events with
// the given bytes. The page has up to limit events of each of the given number of logs.
func PageFull(n, bytes, logs, limit int) bool { return n >= limit || bytes >= BytesOfEach(logs) }

// LogsWithMore returns the logs that may have events after a page of up to limit events of each of
// the given number of logs. Records of the same log must be adjacent.
func LogsWithMore(page []events.Record, logs, limit int) (list []events.ID) {
	n, size := 0, 0
	for i, r := range page {
		n, size = n+1, size+len(r.Meta)+len(r.Data)
		if i+1 == len(page) || page[i+1].Workspace != r.Workspace {
			if PageFull(n, size, logs, limit) {
				list = append(list, r.Workspace)
			}
			n, size = 0, 0
		}
	}
	return list
}

// WithinBytes returns a query for the first rows of another query, which must return the columns
// seq, meta and data of events in the order of seq. A row is included if meta and data of the rows
// before it have fewer bytes than the SQL expression bytes, so the first row always is.
//
// The query first compares the stored sizes, which are smaller if values are compressed, because
// they are known without reading the values.
func WithinBytes(query, columns, bytes string) string {
	return `
		select ` + columns + ` from (
			select *, sum(coalesce(octet_length(meta::text), 0) + coalesce(octet_length(data::text), 0))
				over (order by seq rows between unbounded preceding and 1 preceding) as size_before
			from (
				select *, sum(greatest(pg_column_size(data) - 8, 0))
					over (order by seq rows between unbounded preceding and 1 preceding) as stored_before
				from (` + query + `) q) s
			where coalesce(stored_before, 0) < ` + bytes + `) s
		where coalesce(size_before, 0) < ` + bytes
}
