package leader

// Lasts is how long a lease lasts.
const Lasts = lasts
