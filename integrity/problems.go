package integrity

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"svc/events"
	"svc/projections/fold"
	"svc/proof"
)

// An outcome is the result of checking one workspace.
type outcome struct {
	report     proof.Report
	compared   fold.CompareResult
	verifyErr  error // the signatures were not verified
	compareErr error // some views were not compared
}

// skipped says what was not checked, and why.
func (o *outcome) skipped() []string {
	list := slices.Clone(o.compared.Skipped)
	if o.verifyErr != nil {
		list = append(list, "signatures: "+o.verifyErr.Error())
	}
	if o.compareErr != nil {
		list = append(list, "views: "+o.compareErr.Error())
	}
	return list
}

// lastView returns the view of the last difference, which also has those that are only counted.
func (o *outcome) lastView() string {
	return o.compared.Differences[len(o.compared.Differences)-1].View
}

// problems describes the problems of one workspace.
type problems struct {
	badRecord  string          // number of the bad record, and the reason; "" if there is none
	rows       map[string]int  // number of differing rows by view
	uncompared bool            // something could not be compared
	logged     map[string]bool // problems that were logged
}

// problemsOf returns the problems that a check has found, none of which is logged.
func problemsOf(o outcome) problems {
	p := problems{rows: map[string]int{}, uncompared: len(o.skipped()) > 0, logged: map[string]bool{}}
	if bad := o.report.Bad; bad != nil {
		p.badRecord = fmt.Sprintf("record %d: %s", bad.Seq, bad.Reason)
	}
	for _, d := range o.compared.Differences {
		p.rows[d.View]++
	}
	if o.compared.More > 0 {
		p.rows[o.lastView()] += o.compared.More
	}
	return p
}

// keepUnchecked adds what was found before and could not be checked again, because the log was not
// verified or a view not compared.
func (p *problems) keepUnchecked(before problems, o outcome) {
	if o.verifyErr != nil && o.report.Bad == nil {
		p.badRecord = before.badRecord
	}
	if p.uncompared {
		maps.Copy(p.logged, before.logged)
	}
	for view, n := range before.rows {
		skipped := slices.ContainsFunc(o.compared.Skipped, func(why string) bool { return strings.HasPrefix(why, view+":") })
		if o.compareErr != nil || skipped {
			p.rows[view] = max(p.rows[view], n)
		}
	}
}

// record stores the problems of a workspace and logs each of them once.
func (c *Checker) record(ctx context.Context, workspace events.ID, o outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.found[workspace]
	delete(c.found, workspace)
	p := problemsOf(o)
	p.keepUnchecked(before, o)
	c.logNew(ctx, workspace, o, before, p)
	if len(p.logged) > 0 && len(c.found) < maxRemembered {
		c.found[workspace] = p
		c.seen[workspace] = true
	}
}

// logNew logs the problems in o that were not logged before, and adds all of them to p.logged.
func (c *Checker) logNew(ctx context.Context, workspace events.ID, o outcome, before, p problems) {
	isNew := func(key string) bool {
		p.logged[key] = true
		return !before.logged[key]
	}
	if bad := o.report.Bad; bad != nil && isNew(p.badRecord) {
		c.log.ErrorContext(ctx, "log differs from what was signed", "workspace", workspace, "record", bad.Seq, "reason", bad.Reason)
	}
	for _, d := range o.compared.Differences {
		if isNew(d.View + " " + d.Key) {
			c.log.ErrorContext(ctx, "view differs from the log", "workspace", workspace, "view", d.View, "key", d.Key)
		}
	}
	for _, why := range o.skipped() {
		if isNew(why) {
			c.log.ErrorContext(ctx, "comparison with the log failed", "workspace", workspace, "what", why)
		}
	}
	if more := o.compared.More; more > 0 {
		c.log.ErrorContext(ctx, "view differs from the log in more rows", "workspace", workspace, "view", o.lastView(), "rows", more)
	}
}
