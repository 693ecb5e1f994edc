"""The scenario "spark": reads compared with COPY, writes compared with pushes, and runs of the lake."""
