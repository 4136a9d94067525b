// Package farmviews contains the views of the build farm: its jobs, runners, enrollments and secrets.
package farmviews

import "svc/projections/fold"

// All returns every view of the package, in the order in which they are rebuilt.
func All() []fold.View {
	return []fold.View{
		authorities, enrollments, enrollmentCounts, runners, runnerCounts,
		jobs, jobSpecs, jobArtifacts, jobCounts, farmSecrets,
	}
}
